"""What the people on call look at: alerts and their runbooks, made from code. Not part of the installed package."""
