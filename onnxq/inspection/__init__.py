"""The verbs that look at models, data, engines and rules: what quantizes and repairs imports none of them."""
