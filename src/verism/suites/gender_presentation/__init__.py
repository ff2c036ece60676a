"""Gender presentation differences (GEP, arXiv:2302.03675): in what does a model dress a woman, and in what a man?"""
