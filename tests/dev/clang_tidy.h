#pragma once
// What makes clang 16 take g++ 12's <expected>? It has the concepts that are asked for, and does not say so.
// Included by `./dev lint` before everything else.

#pragma clang system_header
#undef __cpp_concepts
#define __cpp_concepts 202002L
