"""What ran here lately: a bounded local store of commands that have ended, for `sidecar history` and for the views.

record.py   a command -> what is kept of it (pure)
store.py    the file
writer.py   the daemon's part: a sink that passes everything on and keeps what has ended
"""
