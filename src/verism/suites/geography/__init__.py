"""DIG In (Hall et al., arXiv:2308.06198): realism, diversity and consistency of images by region of the world."""
