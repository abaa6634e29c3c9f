"""What the rest of the worker needs to know of the database library, without importing it."""

import sqlite3

StoreError = sqlite3.Error
"""Raised when a store cannot be read or written."""
StoreDamaged = sqlite3.DatabaseError
"""Raised when a file is not a sound database."""
LIBRARY_VERSION = sqlite3.sqlite_version
"""Version of the SQLite library in use."""
