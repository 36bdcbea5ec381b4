"""Reading of files, folders, tables and arrays into a `Split`."""
