"""A program that speaks to one Ray cluster for control. Only here is the library ``ray`` imported, by an interpreter
that may be another one than the server's: nothing but it and the standard library is used."""
