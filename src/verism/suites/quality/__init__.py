"""Do images look like real ones? FID, KID, Inception score, precision, recall, density and coverage."""
