"""What suites share that ask a judge prepared questions about images: switches, files, arithmetic, a base class."""
