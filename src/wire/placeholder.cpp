// Removed when the layer's first source lands.
