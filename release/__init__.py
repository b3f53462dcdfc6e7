"""What a release is made and tried with."""
