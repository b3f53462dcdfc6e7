"""Documents as pages for a reader: what each verb shows."""
