// Philox 4x32-10 (Salmon et al. 2011): counter-based random bits. To be filled by random.wgsl's family.
