// The scale of one axis: values to shares of its length, from 0 to 1, and back.
export class Scale {
  /** @param {boolean} isLog */
  constructor(isLog) {
    this.isLog = isLog;
    this.low = 0;
    this.high = 1;
    this.min = isLog ? 1 : 0;
    this.max = isLog ? 10 : 1;
  }

  // low and high are the ends as they are spread over the length: on a logarithmic axis their logarithms.
  /** @param {number} min @param {number} max */
  set(min, max) {
    this.min = min;
    this.max = max;
    [this.low, this.high] = this.isLog ? [Math.log10(min), Math.log10(max)] : [min, max];
  }

  /** @param {number} value */
  shareOf(value) {
    return ((this.isLog ? Math.log10(value) : value) - this.low) / (this.high - this.low);
  }

  /** @param {number} share */
  valueAt(share) {
    const at = this.low + share * (this.high - this.low);
    return this.isLog ? 10 ** at : at;
  }
}
