"""A web page with what runs, for people without a terminal at hand: served by the daemon, on loopback, on request.

server.py   HTTP on a thread of its own: who may look, what is answered
live.py     the daemon's records, for all who look
page.html   the page: one file, no build step, nothing from elsewhere
"""
