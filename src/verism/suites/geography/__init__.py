"""DIG In (Hall et al., arXiv:2308.06198): realism, diversity and consistency of pictures by region of the world."""
