"""Finding runs by a text: the language of filters, its fields, and the queries that they become."""
