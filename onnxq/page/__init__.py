"""The page of a run, `X.report.html`: what the report says, for a person who decides whether to ship."""
