"""WORK: a file named by a verb is run, a file or folder named by a noun is shared."""
