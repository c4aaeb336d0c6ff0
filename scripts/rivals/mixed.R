# log evidence of a mixed model, or a stand-in, by one of R's packages; called by formulas.py.
#
#   Rscript mixed.R package data.csv factors family link spread scale seed draws
#
# data.csv: the response y, columns of common effects, then the factors (separated by commas, may
# be empty). Prints log Z, its standard error and a remark, separated by tabs.
suppressMessages({
  given <- commandArgs(trailingOnly = TRUE)
  package <- given[1]
  library(package, character.only = TRUE)
  if (package == "bridgesampling") library(rstanarm)
})
data <- read.csv(given[2])
factors <- setdiff(strsplit(given[3], ",")[[1]], "")
data[factors] <- lapply(data[factors], factor)
common <- setdiff(names(data), c("y", factors))
groups <- if (length(factors)) sprintf("(1 | %s)", factors)
form <- reformulate(c("0", common, groups), "y") # no intercept: rstanarm would centre it
kind <- get(given[4])(link = given[5])
numbers <- as.numeric(given[6:9])
spread <- numbers[1]
scale <- numbers[2] # of standard deviations' exponential prior; 0: var / (1 + var) is uniform
seed <- numbers[3]
draws <- numbers[4]

stan_code <- "
data { int N; int K; int G; matrix[N, K] X; int<lower=0, upper=1> y[N];
       int g[N]; real spread; }
parameters { vector[K] b; vector[G] z; real<lower=0> v; }
model { target += normal_lpdf(b | 0, spread) + normal_lpdf(z | 0, 1) - 2 * log1p(v);
        target += bernoulli_lpmf(y | Phi(X * b + sqrt(v) * z[g])); }"

if (package %in% c("lme4", "glmmTMB")) {
  fit <- if (package == "lme4") glmer(form, data, kind) else glmmTMB(form, data, kind)
  answer <- c(-BIC(fit) / 2, NaN)
  remark <- sprintf("no priors; its own maximum of log p(y | theta) is %.3f", logLik(fit))
} else {
  again <- list(chains = 4, iter = 2 * draws, seed = seed, refresh = 0, cores = 1)
  if (scale == 0 && length(factors)) {
    g <- as.integer(data[[factors]])
    X <- as.matrix(data[common])
    stored <- list(N = nrow(X), K = ncol(X), G = max(g), X = X, y = data$y, g = g, spread = spread)
    rstan::rstan_options(boost_lib = "/usr/include") # where Debian has it
    fit <- do.call(rstan::stan, c(list(model_code = stan_code, data = stored), again))
    remark <- "own Stan program; "
  } else {
    # rstanarm multiplies scales of priors by this where the link is probit
    if (given[5] == "probit") spread <- spread / (dnorm(0) / dlogis(0))
    again <- c(again, list(
      form, data = data, family = kind, prior = normal(0, spread, autoscale = FALSE),
      diagnostic_file = tempfile(fileext = ".csv")
    ))
    fit <- if (length(factors)) {
      do.call(stan_glmer, c(again, list(prior_covariance = decov(1, 1, 1, scale))))
    } else {
      do.call(stan_glm, again)
    }
    remark <- ""
  }
  bridge <- bridge_sampler(fit, silent = TRUE)
  answer <- c(bridge$logml, error_measures(bridge)$cv)
  remark <- sprintf("%serror: its coefficient of variation", remark)
}
cat(sprintf("%.10g\t%.10g\t%s\n", answer[1], answer[2], remark))
