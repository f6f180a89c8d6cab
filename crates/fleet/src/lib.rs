//! Agents and their controller.
