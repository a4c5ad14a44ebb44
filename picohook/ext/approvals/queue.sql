-- The queue. A call's row is written once, and so is the answer in it.
CREATE TABLE calls (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, host TEXT NOT NULL, state TEXT NOT NULL, asked_at REAL NOT NULL,
  until REAL NOT NULL, about TEXT NOT NULL, yes INTEGER, reason TEXT NOT NULL DEFAULT '', by TEXT NOT NULL DEFAULT '',
  given TEXT, call BLOB NOT NULL
);
CREATE INDEX in_order ON calls (state, number);
CREATE INDEX of_host ON calls (state, host);
CREATE INDEX by_end ON calls (state, until);
-- The programs that live, each with the address of its page, if it serves one.
CREATE TABLE hosts (name TEXT PRIMARY KEY, url TEXT NOT NULL);
CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL);
INSERT INTO keys VALUES ('links', randomblob(32));
