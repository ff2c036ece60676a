"""People as judges: what they are asked, which pictures they see, their votes, and what these say."""
