// batcher: threads send requests of different lengths. Behind a queue they are packed, one behind
// the other, into batches of as many as fit, and each batch runs in a bucket of sequences and one
// of rows. No request is padded to the longest one of its batch, and no host loop looks at rows.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "prefix.h"

namespace samples {
namespace {

using coppice::CallContext;
using coppice::Dim;
using coppice::DType;
using coppice::PaddingPolicy;
using coppice::Tensor;

constexpr size_t kSequencesMax = 16;  // Of a batch ...
constexpr size_t kRowsMax = 512;      // ... and its rows; no request has more.
constexpr int kClients = 4;
constexpr int kRequests = 50;  // Of each client.

using Rows = std::vector<int64_t>;
using Answer = absl::StatusOr<Rows>;

struct Request {
  Rows rows;
  std::promise<Answer> answer;
};

// Requests in the order of their coming.
class RequestQueue {
 public:
  std::future<Answer> Add(Rows rows) {
    Request request{.rows = std::move(rows)};
    std::future<Answer> answer = request.answer.get_future();
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(std::move(request));
    arrived_.notify_one();
    return answer;
  }

  // Nobody adds one any more.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    arrived_.notify_one();
  }

  // Waits for the first request, and takes those behind it as long as they fit. None: closed.
  std::vector<Request> TakeBatch() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [this] { return closed_ || !requests_.empty(); });
    std::vector<Request> batch;
    size_t rows = 0;
    while (!requests_.empty() && batch.size() < kSequencesMax) {
      rows += requests_.front().rows.size();
      if (rows > kRowsMax) break;
      batch.push_back(std::move(requests_.front()));
      requests_.pop_front();
    }
    return batch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Request> requests_;
  bool closed_ = false;
};

class Batcher {
 public:
  static absl::StatusOr<std::unique_ptr<Batcher>> Create(const coppice::Driver& driver) {
    auto batcher = std::unique_ptr<Batcher>(new Batcher(driver));
    COPPICE_RETURN_IF_ERROR(batcher->Open());
    return batcher;
  }

  // Answers until the queue is closed. An error is the answer of the batch that met it.
  void Serve(RequestQueue& queue) {
    for (auto batch = queue.TakeBatch(); !batch.empty(); batch = queue.TakeBatch()) {
      absl::StatusOr<Rows> y = Run(batch);
      auto next = y.ok() ? y->begin() : Rows::iterator();
      for (Request& request : batch) {
        if (!y.ok()) {
          request.answer.set_value(y.status());
          continue;
        }
        const auto end = next + static_cast<ptrdiff_t>(request.rows.size());
        request.answer.set_value(Rows(next, end));
        next = end;
      }
    }
  }

  void PrintFigures() const {
    const double rectangle = 100.0 * static_cast<double>(rows_) / static_cast<double>(rectangle_);
    const auto nodes = session_->nodes();
    fmt::print("{} batches of {} rows, {} graphs\n", batches_, rows_, nodes.size());
    fmt::print("rectangles would have been full to {:.0f} %\n", rectangle);
  }

 private:
  explicit Batcher(const coppice::Driver& driver) : driver_(driver) {}

  absl::Status Open() {
    COPPICE_ASSIGN_OR_RETURN(auto context, coppice::Context::Create(driver_));
    context_.emplace(std::move(context));
    COPPICE_ASSIGN_OR_RETURN(auto stream, coppice::Stream::Create(driver_));
    stream_.emplace(std::move(stream));
    COPPICE_ASSIGN_OR_RETURN(auto library, coppice::KernelLibrary::Load(driver_, prefix_image));
    library_.emplace(std::move(library));
    COPPICE_ASSIGN_OR_RETURN(kernel_, library_->Get("Prefix"));
    COPPICE_ASSIGN_OR_RETURN(session_, coppice::Session::Create(*context_, {}));

    // How many sequences, and how many rows they have in all, become buckets; how long each is, the
    // device reads, and the program finds where each begins.
    coppice::ProgramSpec spec{.name = "prefix", .claim = coppice::PaddingContents::kAny};
    const int count = spec.AddSymbol("sequences", *PaddingPolicy::Pow2(kSequencesMax));
    const int total = spec.AddSymbol("rows", *PaddingPolicy::Linear(64, kRowsMax));
    const int ragged = spec.AddRagged({.count = count, .total = total, .lengths = 0});
    spec.inputs = {{.name = "lengths", .dtype = DType::kInt32, .dims = {Dim::Symbol(count)}},
                   {.name = "x", .dtype = DType::kInt64, .dims = {Dim::Ragged(ragged)}}};
    spec.outputs = {{.name = "y", .dtype = DType::kInt64, .dims = {Dim::Ragged(ragged)}}};
    const auto prefix = [this, count](CallContext& call) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
      const PrefixParams params{.offsets = reinterpret_cast<const int32_t*>(call.offsets(0).data),
                                .x = reinterpret_cast<const int64_t*>(call.input(1).data),
                                .y = reinterpret_cast<int64_t*>(y.data),
                                .rows = y.sizes[0]};
      const auto blocks = static_cast<unsigned>(call.extent(count));
      return coppice::Launch(call.driver(), kernel_, call.stream(), params, blocks);
    };
    COPPICE_ASSIGN_OR_RETURN(program_, session_->Register(std::move(spec), prefix));
    return absl::OkStatus();
  }

  // The rows of y of all requests, packed.
  absl::StatusOr<Rows> Run(const std::vector<Request>& batch) {
    std::vector<int32_t> lengths;
    Rows x;
    for (const Request& request : batch) {
      lengths.push_back(static_cast<int32_t>(request.rows.size()));
      x.insert(x.end(), request.rows.begin(), request.rows.end());
    }
    COPPICE_ASSIGN_OR_RETURN(const auto lengths_memory, Upload(driver_, *stream_, lengths));
    COPPICE_ASSIGN_OR_RETURN(const auto x_memory, Upload(driver_, *stream_, x));
    const auto count = static_cast<int64_t>(lengths.size());
    const auto rows = static_cast<int64_t>(x.size());
    const Tensor inputs[] = {Tensor::Dense(lengths_memory.address(), DType::kInt32, {&count, 1}),
                             Tensor::Dense(x_memory.address(), DType::kInt64, {&rows, 1})};
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session_->Run({.program = program_, .inputs = inputs, .stream = stream_->handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream_->handle()));
    Rows y(x.size());
    COPPICE_RETURN_IF_ERROR(driver_.Call<&coppice::DriverTable::MemcpyDtoHAsync>(
        y.data(), scope.output(0).data, y.size() * sizeof(int64_t), stream_->handle()));
    COPPICE_RETURN_IF_ERROR(stream_->Synchronize());
    ++batches_;
    rows_ += rows;
    rectangle_ += count * *std::max_element(lengths.begin(), lengths.end());
    return y;
  }

  const coppice::Driver& driver_;
  std::optional<coppice::Context> context_;
  std::optional<coppice::Stream> stream_;
  std::optional<coppice::KernelLibrary> library_;
  coppice::Kernel kernel_;
  std::unique_ptr<coppice::Session> session_;
  const coppice::Program* program_ = nullptr;
  int64_t batches_ = 0;
  int64_t rows_ = 0;
  int64_t rectangle_ = 0;  // Elements of one per batch, as long as its longest request.
};

// Sends requests, and checks the answers: how many were wrong.
int Send(RequestQueue& queue, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Rows> sent;
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < kRequests; ++i) {
    Rows rows(1 + random() % (random() % 8 == 0 ? 300 : 30));  // Most are short.
    std::generate(rows.begin(), rows.end(), [&] { return static_cast<int64_t>(random() % 100); });
    sent.push_back(rows);
    answers.push_back(queue.Add(std::move(rows)));
  }
  int wrong = 0;
  for (size_t i = 0; i < sent.size(); ++i) {
    std::partial_sum(sent[i].begin(), sent[i].end(), sent[i].begin());
    const Answer answer = answers[i].get();
    if (!answer.ok()) fmt::print(stderr, "batcher: {}\n", coppice::MessageOf(answer.status()));
    if (!answer.ok() || *answer != sent[i]) ++wrong;
  }
  return wrong;
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto batcher, Batcher::Create(driver));
  RequestQueue queue;
  std::vector<std::future<int>> clients;
  for (unsigned client = 0; client < kClients; ++client)
    clients.push_back(
        std::async(std::launch::async, [&queue, client] { return Send(queue, client); }));
  // The clients wait for their answers, which this thread gives.
  std::thread closer([&] {
    for (const std::future<int>& client : clients)
      client.wait();
    queue.Close();
  });
  batcher->Serve(queue);
  closer.join();
  int wrong = 0;
  for (std::future<int>& client : clients)
    wrong += client.get();
  fmt::print("{} requests, {} answers wrong\n", kClients * kRequests, wrong);
  batcher->PrintFigures();
  return wrong == 0 ? absl::OkStatus() : absl::InternalError("not every sum is right");
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::prefix_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("batcher", status, emulator);
}
