"""What becomes of a request, by what its route declares and by who calls: for the table of routes and roles, for docs,
and for the tests that call each route as each role. Nothing here decides: runs.rights.access does."""
