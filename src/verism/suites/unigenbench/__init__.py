"""UniGenBench: test points of prompts, judged one by one."""
