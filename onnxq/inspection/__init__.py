"""The verbs that only look at models, data and engines: nothing that makes a file imports them."""
