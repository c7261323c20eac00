//! The sandbox from outside: guests that do one thing each, and what becomes of the call.

mod bounds;
mod cancel;
mod faults;
mod first_party;
mod hostile;
mod said;
mod web;
mod world;

mod wat;
