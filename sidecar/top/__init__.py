"""`sidecar top`: a live view for a terminal.

board.py    what is shown (pure): commands, what just ended, sorted and filtered
view.py     a board -> lines of text, with styles (pure)
keys.py     bytes of a terminal -> keys (pure)
screen.py   the terminal: raw keys, the alternate screen, suspending
loop.py     puts them together
"""
