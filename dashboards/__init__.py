"""What the people on call look at: dashboards, alerts and their runbooks, made from code. Not part of the package."""
