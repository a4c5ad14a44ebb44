-- The grants, each with the key by which a call finds it, and the forms of the keys that there are.
DROP TABLE IF EXISTS grants;
CREATE TABLE grants (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, given REAL NOT NULL, until REAL NOT NULL, left INTEGER, by TEXT NOT NULL,
  terms TEXT NOT NULL
);
CREATE INDEX by_key ON grants (key);
CREATE INDEX by_end ON grants (until);
CREATE TABLE forms (start TEXT NOT NULL, form TEXT NOT NULL, PRIMARY KEY (start, form)) WITHOUT ROWID;
