"""The command line. Data goes to stdout, everything else to stderr; every answer has a form for people and one in JSON."""
