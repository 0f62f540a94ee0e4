"""Release tools: builds of earlier releases to test against, and checks before a new one."""
