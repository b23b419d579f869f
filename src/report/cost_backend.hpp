#pragma once

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/report/device_profile.hpp"
#include "virtual_cluster.hpp"

namespace subring::report {

/// Work of one operation: its name with all that its time depends on, and the views it goes over.
struct Operation {
  std::string name;
  double flops = 0;  ///< 0: it is bound by memory
  std::vector<ConstView> views;
  std::function<void(Backend&, Stream&)> run;
};

/// Seconds of operations on a device. Under "cpu" an operation is timed the first time that one of
/// its name and extents comes, by the real backend; for GPUs it is the larger of flops and bytes
/// over what the profile promises, f32 views counted as the bf16 they would be there.
class OperationCosts {
 public:
  OperationCosts(const DeviceProfile& device, const BackendOptions& backend, int num_ranks);
  ~OperationCosts();

  double seconds(const Operation& operation);
  /// No more ranks compute beside what is timed: to be called once most costs are known.
  void end_neighbours();
  /// Of the views that operations may get: never touched under a GPU's profile.
  std::pmr::memory_resource& memory() { return *memory_; }
  /// nullptr unless operations are timed.
  Backend* real() { return real_.get(); }

 private:
  double measure(const Operation& operation);
  double from_profile(const Operation& operation) const;

  DeviceProfile device_;
  std::unique_ptr<std::pmr::memory_resource> memory_;
  std::unique_ptr<Backend> real_;
  std::unique_ptr<Stream> stream_;
  double oversubscription_ = 1;  // threads of all ranks over cores
  std::map<std::string, double> known_;
  // Ranks beside the one that is timed: they use caches, memory and clock rate as in a run.
  std::vector<std::thread> neighbours_;
  std::atomic<bool> ended_ = false;
};

/// A backend of one virtual rank: computes nothing and lets the rank's clock go on by what each
/// operation costs.
std::unique_ptr<Backend> make_cost_backend(OperationCosts& costs, VirtualRank& rank);

}  // namespace subring::report
