"""What is really in an environment: standard library only, older Pythons than kvcheck's own included, and no package is imported.

These files run as they are in any image; what the hashes mean is found out outside, where a repository is.
"""
