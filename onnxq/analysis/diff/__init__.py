"""What two reports differ in: a file for each part, each a function of two reports that tells a judge."""
