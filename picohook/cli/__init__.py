"""The command line. Data goes to stdout, everything else to stderr. All data can be printed for people or as JSON."""
