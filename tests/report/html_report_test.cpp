#include "subring/report/html_report.hpp"

#include <iterator>

#include "report/sample_run.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::report;
using namespace subring::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The data of the page, between its script element's tags.
std::string data_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="data">)";
  const size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::vector<RunLog> sample_runs() {
  const SampleRun first("first",
                        {run_line("none", 2),
                         step_line(1, 5, "uncompressed", 500),
                         step_line(2, 4, "uncompressed", 500),
                         eval_line(2, 4.5)});
  const SampleRun second("second",
                         {run_line("subspace", 9),
                          step_line(1, 5, "warm_start", 250),
                          step_line(2, 4, "compressed", 10)});
  return {read_run(first.directory()), read_run(second.directory())};
}

}  // namespace

TEST_CASE("the page holds the runs, their differences and Chart.js") {
  const std::string page = html_report(sample_runs(), {.title = "Two runs"});
  CHECK(contains(page, "<title>Two runs</title>"));
  CHECK(contains(page, "Chart.js v3"));
  CHECK_FALSE(contains(page, "{{"));
  CHECK_FALSE(contains(page, "<link"));
  CHECK_FALSE(contains(page, "src="));
  const std::string data = data_of(page);
  CHECK(contains(data, R"({"key":"compression.codec","values":["none","subspace"]})"));
  CHECK(contains(data, R"({"key":"training.steps","values":["2","9"]})"));
  CHECK(contains(data,
                 R"("common":[{"key":"mesh.ranks","value":"4"},{"key":"version","value":"1"}])"));
  CHECK(contains(data, R"("tokens":[10,20],"seconds":[2.0,4.0],"loss":[5.0,4.0])"));
  CHECK(contains(data,
                 R"("phases":[{"step":0,"phase":"warm_start"},{"step":1,"phase":"compressed"}])"));
  // The second run has no evaluation, and 2 of 9 steps.
  CHECK(contains(data, R"("val_loss":null)"));
  CHECK(count(data, R"("unfinished":true)") == 1);
  CHECK(contains(data, R"("evals":{"step":[2],"tokens":[20],"seconds":[4.0],"val_loss":[4.5]})"));
}

TEST_CASE("no text of the runs is read as markup") {
  std::vector<RunLog> runs = sample_runs();
  runs[0].name = "</script><script>alert(1)</script><!--";
  runs[1].name = "not UTF-8: \xFF";
  runs[1].settings["data.train"] = "{{chart_js}}<b>";
  const std::string plain = html_report(sample_runs(), {.title = "t"});
  const std::string page = html_report(runs, {.title = "<i>\"&", .notes = "<b>bold</b> </script>"});
  CHECK(count(page, "<script") == count(plain, "<script"));
  CHECK(count(page, "</script") == count(plain, "</script"));
  CHECK(count(page, "<!--") == count(plain, "<!--"));
  CHECK_FALSE(contains(page, "<b>"));
  CHECK(contains(page, "<title>&lt;i&gt;&quot;&amp;</title>"));
  CHECK(contains(data_of(page), "{{chart_js}}\\u003cb>"));
}

TEST_CASE("long curves are thinned, and their sums kept") {
  RunLog run = sample_runs()[0];
  const StepRecord step = run.steps[0];
  run.steps.clear();
  constexpr size_t kSteps = 3 * kMaxPoints - 1;  // so the last point stands for two steps
  for (size_t i = 1; i <= kSteps; ++i) {
    run.steps.push_back(step);
    run.steps.back().step = static_cast<int64_t>(i);
    run.steps.back().loss = static_cast<double>(i % 3);
    run.steps.back().grad_norm = static_cast<double>(i % 3);
  }
  const std::string data = data_of(html_report({run}, {}));
  const auto array_of = [&](const std::string& name) {
    const size_t begin = data.find("\"" + name + "\":[", data.find("\"series\"")) + name.size() + 4;
    std::vector<double> values;
    for (size_t at = begin; data[at - 1] != ']'; at = data.find_first_of(",]", at) + 1) {
      values.push_back(std::stod(data.substr(at)));
    }
    return values;
  };
  const std::vector<double> losses = array_of("loss");
  CHECK(losses.size() == kMaxPoints);
  CHECK(losses.front() == 1);
  CHECK(losses.back() == 1.5);
  CHECK(array_of("grad_norm").front() == 2);
  CHECK(array_of("step").back() == kSteps);
  CHECK(array_of("tokens").back() == 10 * kSteps);
  CHECK(array_of("kv").back() == 1000);
}

TEST_CASE("a page is written whole, and where it cannot be, that is said") {
  const SampleRun place("place", {});
  const std::filesystem::path out = place.directory() / "report.html";
  const std::vector<RunLog> runs = sample_runs();
  std::ofstream(out) << "older";
  write_html_report(out, runs, {});
  std::ifstream file(out);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == html_report(runs, {}));
  CHECK(std::distance(std::filesystem::directory_iterator(place.directory()), {}) == 2);
  for (const auto& bad : {place.directory() / "no/report.html", place.directory()}) {
    try {
      write_html_report(bad, runs, {});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::config);
      CHECK(contains(error.what(), "--out: " + bad.string()));
    }
  }
}
