"""Pure logic: no I/O, no clock, no third party. State in, state out."""
