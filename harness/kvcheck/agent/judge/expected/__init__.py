"""What each output of an op must be, and how far an honest kernel may be from it: one file an op that rounds.

`expected(inputs, tensors, model)` returns (value, bound) by output. An op without a file is held to its reference exactly.
"""
