"""Rules broken in every small way: do their own examples and the proof notice?"""
