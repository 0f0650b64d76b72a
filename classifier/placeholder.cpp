// classifier
