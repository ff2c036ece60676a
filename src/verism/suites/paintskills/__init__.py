"""PaintSkills (Cho et al., arXiv:2202.04053v1 and ICCV 2023): objects, counts, colours and spatial relations."""
