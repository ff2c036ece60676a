"""Text rendering: is the text that a prompt asks for in the image, letter by letter?"""
