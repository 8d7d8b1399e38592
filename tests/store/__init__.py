"""One suite, every database: each test runs on a SQLite file and on PostgreSQL."""
