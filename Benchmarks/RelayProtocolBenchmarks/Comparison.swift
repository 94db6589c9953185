// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An operation that is measured alternately with others in the same run: the machine's speed drifts, but the ratio of
/// adjacent measurements does not.
struct Measurement {
    let name: String
    /// The number of bytes that it processes, if a rate says more than the time.
    let bytes: Int?
    /// Performs the operation once.
    let body: () throws -> Void

    init(_ name: String, bytes: Int? = nil, body: @escaping () throws -> Void) {
        self.name = name
        self.bytes = bytes
        self.body = body
    }

    /// Nanoseconds for one operation, averaged over as many as take about 20 ms.
    func run(iterations: Int) throws -> Double {
        let clock = ContinuousClock()
        let elapsed = try clock.measure {
            for _ in 0..<iterations { try body() }
        }
        return elapsed / .nanoseconds(1) / Double(iterations)
    }

    func iterationsForOneRound() throws -> Int {
        var iterations = 1
        while try run(iterations: iterations) * Double(iterations) < 10e6 { iterations *= 2 }
        return iterations * 2
    }
}

/// Runs the measurements alternately.
/// - Returns: The median of each in nanoseconds.
func medians(of measurements: [Measurement], rounds: Int) throws -> [Double] {
    let iterations = try measurements.map { try $0.iterationsForOneRound() }
    var samples = measurements.map { _ in [Double]() }
    for _ in 0..<rounds {
        for (index, measurement) in measurements.enumerated() {
            samples[index].append(try measurement.run(iterations: iterations[index]))
        }
    }
    return samples.map { $0.sorted()[$0.count / 2] }
}

/// Keeps a result alive, so that the optimiser cannot remove the work.
@inline(never)
func keep<Result>(_ result: Result) {}
