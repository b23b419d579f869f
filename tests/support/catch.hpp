#pragma once

// The one include of Catch2, whose headers differ between 2.x (Debian 12, Ubuntu) and 3.x.
#ifdef SUBRING_CATCH2_V3
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#else
#include <catch2/catch.hpp>
#endif
#ifdef SUBRING_CATCH2_V3
using Catch::Approx;
#endif
