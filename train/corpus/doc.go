// Package corpus prepares parallel text for training: it cleans, shuffles, and adds noise.
package corpus
