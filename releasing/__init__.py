"""What releasing takes: earlier releases to test against, and the checks before a new one."""
