// What the output layer chooses, and what the next step begins with.
#pragma once

// A Choice is a token with its score.
struct Choice {
  float score;
  int token;
};

// A Guess is what a row goes on with before anybody has read the choices: the number of a state, and a token.
struct Guess {
  int state, token;
};
