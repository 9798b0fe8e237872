#include "dataplane/bundle_name.hpp"

#include <doctest/doctest.h>

#include <string>

namespace weir::dataplane {

TEST_SUITE("dataplane/bundle_name") {

  TEST_CASE("names are read back as they were written") {
    for (const bundle_name name : {bundle_name{0, 0}, bundle_name{12, 0}, bundle_name{12, 1},
                                   bundle_name{18446744073709551615U, 3}})
      CHECK(parse_bundle_name(to_string(name)) == name);
    CHECK(to_string(bundle_name{12, 0}) == "step_12");
    CHECK(to_string(bundle_name{12, 2}) == "step_12.2");
  }

  TEST_CASE("what only looks like a bundle is none") {
    for (const char* text : {"",
                             "7",
                             "007",
                             "7.tmp",
                             "step_",
                             "step_007",
                             "step_+7",
                             "step_-7",
                             "step_ 7",
                             "step_7 ",
                             "step_7.",
                             "step_7.0",
                             "step_7.01",
                             "step_7.1.1",
                             "step_7.tmp",
                             "step_0x7",
                             "Step_7",
                             "step_18446744073709551616",
                             ".tmp-1-1.1",
                             ".retired-step_7",
                             ".abandoned-step_7",
                             "latest",
                             "step_7/"})
      CHECK_MESSAGE(!parse_bundle_name(text), text);
  }

  TEST_CASE("names are ordered by number") {
    CHECK(bundle_name{9, 0} < bundle_name{10, 0});
    CHECK(bundle_name{10, 0} < bundle_name{10, 1});
    CHECK(bundle_name{10, 9} < bundle_name{10, 10});
  }

  TEST_CASE("a temporary name tells its epoch") {
    const epoch_id epoch{3, 1, 7};
    CHECK(temporary_name(epoch) == ".tmp-3-1.7");
    CHECK(parse_temporary_name(".tmp-3-1.7") == epoch);
    for (const char* text : {".tmp-", ".tmp-3", ".tmp-3-1", ".tmp-3-1.", ".tmp-3-1.7x",
                             ".tmp-03-1.7", "tmp-3-1.7", ".tmp--1.7"})
      CHECK_MESSAGE(!parse_temporary_name(text), text);
  }

  TEST_CASE("a bundle's file cannot be outside of it, nor hidden, nor its manifest") {
    CHECK(is_bundle_path("policy/weights/model-00001-of-00002.safetensors"));
    for (const std::string& path :
         {std::string(), std::string("/etc/passwd"), std::string("../x"), std::string("a/../b"),
          std::string("a//b"), std::string("a/"), std::string(".hidden"), std::string("a/.b"),
          std::string("a b"), std::string("a\0b", 3), std::string("MANIFEST"),
          std::string(1025, 'a'), std::string("a/b/c/d/e/f/g/h/i/j")})
      CHECK_MESSAGE(!is_bundle_path(path), path);
  }
}

} // namespace weir::dataplane
