"""People as judges: what they are asked, which images they see, their votes, and what these say."""
