-- The grants, each with the key by which a call finds it, and the names of the arguments that may differ, by the key's start.
CREATE TABLE grants (
  id TEXT PRIMARY KEY, key BLOB NOT NULL, given REAL NOT NULL, until REAL NOT NULL, left INTEGER, terms TEXT NOT NULL
);
CREATE INDEX by_key ON grants (key, given);
CREATE INDEX by_end ON grants (until);
CREATE TABLE forms (start TEXT NOT NULL, names TEXT NOT NULL, PRIMARY KEY (start, names)) WITHOUT ROWID;
