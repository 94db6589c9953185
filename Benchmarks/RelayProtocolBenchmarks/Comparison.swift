// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One piece of work, measured by turns with another in the same run: the machine's speed drifts, a ratio of neighbours
/// does not.
struct Measurement {
    let name: String
    /// How many bytes it goes through, where that says more than the time.
    let bytes: Int?
    /// Does the work once.
    let body: () throws -> Void

    init(_ name: String, bytes: Int? = nil, body: @escaping () throws -> Void) {
        self.name = name
        self.bytes = bytes
        self.body = body
    }

    /// Nanoseconds for one time, measured over as many as fill about 20 ms.
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

/// Runs the measurements in turns and returns the median of each in nanoseconds.
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

/// Keeps a result alive, so that the optimizer cannot leave the work out.
@inline(never)
func keep<Result>(_ result: Result) {}
