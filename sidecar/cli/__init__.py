"""The command line: click, one verb a file. Never loaded on the way to the spawn of a command."""
